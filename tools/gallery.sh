#!/usr/bin/env bash
# Makes the gallery again: a report, the memory of a plan and the trade-off curves of six networks, and the
# page docs/gallery/README.md that shows them. Takes some minutes.
#   tools/gallery.sh [NEAP]     the command to use; build/release/neap if not given
#   NEAP_GALLERY_SECONDS=5      for each plan
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
neap=${1:-build/release/neap}
if [ ! -x "$neap" ]; then
    echo "gallery: no command $neap; build it with: make build" >&2
    exit 1
fi
folder=docs/gallery
limit=${NEAP_GALLERY_SECONDS:-5}s
methods=neap,sqrt,greedy,hong,rotor

# NAME TITLE BUDGET MODEL OPTIONS...
networks=(
    "resnet50|ResNet-50, 64 images|45%|resnet50 --batch 64"
    "vgg19|VGG-19, 64 images|60%|vgg19 --batch 64"
    "densenet121|DenseNet-121, 64 images|35%|densenet121 --batch 64"
    "unet|U-Net, 8 images|50%|unet --batch 8"
    "bert|BERT base, 16 sequences, Adam, state and activations move to the host|35%|bert-base --batch 16 --optimizer adam --link 55GB/s --duplex"
    "gpt2|GPT-2 small, 8 sequences, activations move to the host|40%|gpt2 --batch 8 --link 55GB/s --duplex"
)

mkdir -p "$folder"
page=$folder/README.md
new=$(mktemp "$folder/.page.XXXXXX")
trap 'rm -f "$new"' EXIT
{
    echo "# Gallery"
    echo
    echo "Six networks, planned for one H200 by its roofline. A report is one file: download it and open it in a browser"
    echo "([report.md](../report.md)). \`tools/gallery.sh\` makes everything on this page again."
} >"$new"

for entry in "${networks[@]}"; do
    IFS='|' read -r name title budget words <<<"$entry"
    read -ra model <<<"$words"
    echo "gallery: $title"
    "$neap" report "${model[@]}" --budget "$budget" --points 4 --time-limit "$limit" -o "$folder/$name.html" >/dev/null
    "$neap" plan "${model[@]}" --budget "$budget" --time-limit "$limit" --svg "$folder/$name-memory.svg" >/dev/null
    "$neap" curve "${model[@]}" --method "$methods" --points 6 --time-limit "$limit" \
        --svg "$folder/$name-curve.svg" >/dev/null
    {
        echo
        echo "## $title"
        echo
        echo "[Report]($name.html) of \`neap report $words --budget $budget --points 4\`"
        echo
        echo "![Memory of $title over one step, within $budget of what the step takes without a plan]($name-memory.svg)"
        echo
        echo "![What each budget costs $title, by method]($name-curve.svg)"
    } >>"$new"
done
chmod 644 "$new"
mv "$new" "$page"
