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
# Who asks it shows a certificate of that CA; its own is read anew for each connection. 1.45 forgets the version where it
# asks for a certificate, and speaks TLS 1.2 with those who have one, too.
if [ -n "${KERF_REDIS_METRICS_TLS:-}" ]; then
  set -- -tls-server-cert-file "${KERF_REDIS_METRICS_TLS}/tls.crt" -tls-server-key-file "${KERF_REDIS_METRICS_TLS}/tls.key" \
    -tls-server-ca-cert-file "${KERF_REDIS_METRICS_TLS}/ca.crt" -tls-server-min-version TLS1.3
fi
# It names itself to nobody, and leaves the settings alone: it may do neither.
exec prometheus-redis-exporter -web.listen-address "$KERF_REDIS_METRICS_LISTEN" -set-client-name=false -config-command - "$@"
