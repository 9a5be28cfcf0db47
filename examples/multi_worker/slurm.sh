#!/bin/sh
# Training on two nodes under Slurm. --requeue restarts the job after a node fails, and training resumes
# from the newest checkpoint. The model directory must be on a file system that all nodes share.
#
#     sbatch slurm.sh
#
#SBATCH --job-name=tf-transformer
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --signal=TERM@120
#SBATCH --requeue

ADDRESSES=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/.*/"&:2222"/' | paste -sd, -)
export ADDRESSES

srun --kill-on-bad-exit sh -c '
  export TF_CONFIG="{\"cluster\": {\"worker\": [$ADDRESSES]}, \
    \"task\": {\"type\": \"worker\", \"index\": $SLURM_PROCID}}"
  exec tf-transformer train \
    --source train.en --target train.de \
    --validation-source valid.en --validation-target valid.de \
    --model-dir model --preset base
'
