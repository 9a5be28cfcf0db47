#!/bin/sh
# Training on two nodes under Slurm. --requeue restarts the job after a node has failed or was taken away
# for another job, and training resumes from the newest checkpoint. SIGTERM is sent 120 seconds before the
# time limit; all workers save and stop, and the job queues itself again. The model directory must be on a
# file system that all nodes share.
#
#     sbatch slurm.sh
#
#SBATCH --job-name=tf-transformer
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append

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
status=$?
if [ "$status" -eq 143 ]; then # stopped by SIGTERM, after saving
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
