#!/usr/bin/env bash
# Runs the compile command given to it, which makes a precompiled header, and writes beside it
# what ccache is to know it by: a checksum of everything the header says (`.gch.sum`, read with
# CCACHE_PCH_EXTSUM). The precompiled bytes themselves differ from folder to folder.
set -euo pipefail

preprocess=()
output=
launcher=true
for word in "$@"; do
  # What stands before the compiler (ccache and its settings) is not wanted here.
  if $launcher; then
    case $word in *g++* | *gcc* | *c++*) launcher=false ;; *) continue ;; esac
  fi
  case ${last-} in
    -o) output=$word; last=; continue ;;
    -MT | -MF | -MQ) last=; continue ;;
  esac
  last=$word
  case $word in
    -o | -MT | -MF | -MQ | -MD | -MMD | -fpch-preprocess | -c) ;;
    *) preprocess+=("$word") ;;
  esac
done

case $output in *.gch) ;; *) exec "$@" ;; esac
# An old one would be read in place of the header, and found again in the cache.
rm -f "$output" "$output.sum"
"$@"
# Generated headers name their own path (__FILE__ in assertions).
"${preprocess[@]}" -E -P -dD | sed "s#$PWD/##g" | sha256sum | cut -d' ' -f1 >"$output.sum"
