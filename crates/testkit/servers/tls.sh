#!/usr/bin/env bash
# tls.sh DIR [rsa]: a CA, and a certificate of it for a server (127.0.0.1, localhost) and for a client.
# Writes ca.pem, ca-key.pem, {server,client}-cert.pem, {server,client}-key.pem (PKCS #8; P-256, or RSA).
set -euo pipefail
umask 022

d=$1
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1)
[ "${2:-}" != rsa ] || key=(-newkey rsa:2048)
t=$d.new.$$
rm -rf "$t"; mkdir -p "$t"
trap 'rm -rf "$t"' EXIT
cat >"$t/openssl.cnf" <<'CNF'
[req]
distinguished_name = dn
prompt = no
[dn]
CN = unused
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1,DNS:localhost
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
CNF
{
  openssl req -x509 -config "$t/openssl.cnf" -extensions ca "${key[@]}" -nodes \
    -subj "/CN=Headwater test CA" -days 3650 -keyout "$t/ca-key.pem" -out "$t/ca.pem"
  for who in server client; do
    openssl req -config "$t/openssl.cnf" "${key[@]}" -nodes \
      -subj "/CN=headwater-test-$who" -keyout "$t/$who-key.pem" -out "$t/$who.csr"
    openssl x509 -req -in "$t/$who.csr" -CA "$t/ca.pem" -CAkey "$t/ca-key.pem" -CAcreateserial -days 3650 \
      -extfile "$t/openssl.cnf" -extensions "$who" -out "$t/$who-cert.pem"
  done
} >"$t/log" 2>&1 || { cat "$t/log" >&2; exit 1; }
rm -f "$t/log" "$t/openssl.cnf" "$t"/*.csr "$t"/*.srl
rm -rf "$d"
mv "$t" "$d"
