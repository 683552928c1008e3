#!/bin/sh
# With the options that HiveMQ's own start script gives to Java.
home=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck disable=SC2086 # several options
exec java --add-opens java.base/java.lang=ALL-UNNAMED --add-opens java.base/java.nio=ALL-UNNAMED \
    --add-opens java.base/sun.nio.ch=ALL-UNNAMED \
    --add-opens jdk.management/com.sun.management.internal=ALL-UNNAMED \
    --add-exports java.base/jdk.internal.misc=ALL-UNNAMED \
    $JAVA_OPTS -cp "$home/classes:$home/lib/*" Launcher
