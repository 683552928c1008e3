#!/bin/sh
exec node "$(dirname "$0")/../launcher.js" "$@"
