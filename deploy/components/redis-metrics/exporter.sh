#!/bin/sh
# Becomes the exporter of one node of Redis, as the user that keeper.sh has made for it (KERF_REDIS_EXPORTER): it may ask
# for figures alone, and its password is known in this pod alone.
set -eu
password=$KERF_REDIS_EXPORTER/password
until [ -s "$password" ]; do sleep 1; done
if [ -n "${KERF_REDIS_TLS:-}" ]; then
  # By the name of the pod, which its certificate has; addresses come and go.
  REDIS_ADDR=rediss://${KERF_REDIS_NAME}:$KERF_REDIS_PORT
  export REDIS_EXPORTER_TLS_CA_CERT_FILE="${KERF_REDIS_TLS}/ca.crt"
else
  REDIS_ADDR=redis://$KERF_REDIS_ADDRESS:$KERF_REDIS_PORT
fi
REDIS_USER=exporter
REDIS_PASSWORD=$(cat "$password")
export REDIS_ADDR REDIS_USER REDIS_PASSWORD
# It names itself to nobody, and leaves the settings alone: it may do neither.
exec prometheus-redis-exporter -web.listen-address "$KERF_REDIS_METRICS_LISTEN" -set-client-name=false -config-command -
