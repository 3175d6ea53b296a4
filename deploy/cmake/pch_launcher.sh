#!/usr/bin/env bash
# Runs the compile command given to it, which makes a precompiled header, and writes beside it
# what ccache is to know it by: a checksum of everything the header says (`.gch.sum`, read with
# CCACHE_PCH_EXTSUM). The precompiled bytes themselves differ from folder to folder.
set -euo pipefail
"$@"

preprocess=()
output=
launcher=true
while [ $# -gt 0 ]; do
  # What stands before the compiler (ccache and its settings) is not wanted here.
  if $launcher; then
    case $1 in *g++* | *gcc* | *c++*) launcher=false ;; *) shift; continue ;; esac
  fi
  case $1 in
    -o) output=$2; shift ;;
    -MT | -MF | -MQ) shift ;;
    -MD | -MMD | -fpch-preprocess | -c) ;;
    *) preprocess+=("$1") ;;
  esac
  shift
done
case $output in *.gch) ;; *) exit 0 ;; esac
# Generated headers name their own path (__FILE__ in assertions).
"${preprocess[@]}" -E -P -dD | sed "s#$PWD/##g" | sha256sum | cut -d' ' -f1 >"$output.sum"
