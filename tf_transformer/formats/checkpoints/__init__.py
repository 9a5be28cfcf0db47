"""Checkpoints of fairseq, OpenNMT-py and OpenNMT-tf."""
