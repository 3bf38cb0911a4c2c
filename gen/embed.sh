#!/bin/sh
# embed.sh FILE...: the files as a C table on stdout, see gen/embed.h.
set -e
echo '/* Made by gen/embed.sh; do not edit. */'
echo '#include "gen/embed.h"'
n=0
for file; do
    echo "static const unsigned char file_$n[] = {"
    od -An -v -tu1 "$file" | sed 's/\([0-9][0-9]*\)/\1,/g'
    echo '0};'
    n=$((n + 1))
done
echo 'const struct embedded embedded_files[] = {'
n=0
for file; do
    echo "    {\"$file\", file_$n, sizeof file_$n - 1},"
    n=$((n + 1))
done
echo '};'
echo 'const int embedded_count = (int)(sizeof embedded_files / sizeof embedded_files[0]);'
