/*
 * Command-line arguments of networks that train in milliseconds per step on plain C kernels. The
 * tests of one program share a folder and its file of measured times.
 */
#ifndef NEAP_TESTS_TRAINING_LINES_H
#define NEAP_TESTS_TRAINING_LINES_H

#define KERNELS " --backend ref --profile-cache profile.json "
#define SMALL_GPT2                                                                                 \
    "gpt2 --set layers=2 --set hidden=32 --set heads=2 --set vocab=50 --seq 32 --batch 8 "         \
    "--set dropout_percent=10" KERNELS
#define SMALL_RESNET "resnet18 --set width=10 --set classes=10 --image 32 --batch 2" KERNELS
#define SMALL_VGG    "vgg11 --set width=5 --set classes=10 --image 32 --batch 2" KERNELS
#define SMALL_LSTM   "lstm --set hidden=8 --set layers=1 --set vocab=20 --seq 8 --batch 2" KERNELS

/* Less memory than SMALL_GPT2 takes by itself, with any optimizer. */
#define SMALL_GPT2_TIGHT SMALL_GPT2 "--budget 80% --method greedy "

#endif
