#!/bin/sh
# One node of the Redis Cluster of kerf: forms the cluster with the others, and mends it. POSIX sh with BusyBox's tools.
#
#   keeper.sh start   becomes redis-server
#   keeper.sh keep    looks every few seconds whether there is something to do, until SIGTERM
#   keeper.sh alive   succeeds if redis-server answers
#   keeper.sh ready   succeeds if the cluster is whole and this node has what it should have
#   keeper.sh leave   hands a master's slots to its replica, before it is stopped
#   keeper.sh passwords   says by which sums this node knows whom, and that of the password it comes to others with
#
# The nodes find each other by names that last (the file `peers`, one a line, the same everywhere and in the same order);
# addresses change whenever a pod is made anew. Each node mends only itself, and the first one gives out the slots, so
# nothing here needs a lock. Whatever is done may fail half-way or be done twice. Where Redis gives a shard up for ever
# (deploy/README.md has the table), a node asks for votes or learns what it lacks for them: a majority of masters votes.
set -eu

settings=$KERF_REDIS_SETTINGS
passwords=$KERF_REDIS_PASSWORDS_PATH
data=$KERF_REDIS_DATA
scratch=$KERF_REDIS_SCRATCH
address=$KERF_REDIS_ADDRESS
port=$KERF_REDIS_PORT
pause_s=${KERF_REDIS_PAUSE_S:-5}
# Where components/redis-metrics wants its password, if it is there.
exporter=${KERF_REDIS_EXPORTER:-}
# ca.crt, tls.crt and tls.key of components/redis-tls, if it is there: then nothing is said in the clear.
tls=${KERF_REDIS_TLS:-}

master_count=3
slot_count=16384
call_s=3
leave_s=15
# Before a certificate ends this is said each day.
certificate_days=14
# A failed master is replaced within some 10 s, or within 30 s if its replica must learn something first.
successor_s=${KERF_REDIS_SUCCESSOR_S:-60}

say() { echo "keeper: $*"; }

# cli HOST ARGUMENTS...
cli() {
  host=$1
  shift
  trusted=
  if [ -n "$tls" ]; then
    # Its own node it knows by the pod's address: what that shows may be over, or of a CA that went, until it is told of what
    # is mounted by now.
    if [ "$host" = "$address" ]; then trusted="--tls --insecure"; else trusted="--tls --cacert $tls/ca.crt"; fi
  fi
  # shellcheck disable=SC2086 # A word for each; the mount has no blanks.
  timeout "$call_s" redis-cli -h "$host" -p "$port" $trusted --no-auth-warning "$@" 2>/dev/null
}

# ask HOST COMMAND...
ask() {
  asked=$1
  shift
  cli "$asked" --user keeper "$@"
}

# ask_own COMMAND...: this node, as the user that nobody else is.
ask_own() {
  (REDISCLI_AUTH=$(cat "$scratch/self" 2>/dev/null) && export REDISCLI_AUTH && cli "$address" -e --user self "$@")
}

# do_it HOST COMMAND...: says what it does, and what Redis says when it refuses.
do_it() {
  answer=$(ask "$@" || echo "no answer")
  say "$*: $answer"
  [ "$answer" = OK ]
}

# What HOST knows of all nodes, a line for each: ID ADDRESS:PORT@BUS[,NAME] FLAGS MASTER PING PONG EPOCH LINK SLOTS...
# Fails for a host that is no node of a cluster, or is not ready to say.
nodes_of() {
  view=$(ask "$1" CLUSTER NODES) || return 1
  case $view in *myself*) echo "$view" ;; *) return 1 ;; esac
}

# Of a node that has lost its disk, its replica would take over nothing: it would find an empty master at the address that
# it knows, and empty itself. So nothing listens there before the replica has taken over, and whoever has an empty disk
# is copied by nobody before it is known to be safe (open_up): peers that do not answer yet may be such replicas.
# A replica that does not take over by itself waits until this node answers (inherit).
await_successor() {
  [ ! -s "$data/nodes.conf" ] || return 0
  : >"$scratch/closed"
  waited=0
  while [ "$waited" -lt "$successor_s" ]; do
    heir=
    while read -r peer; do
      nodes_of "$peer" </dev/null | awk -v at="$address:$port@" '
        index($2, at) == 1 && NF > 8 { has_slots = 1 } END { exit !has_slots }' && heir=$peer
    done <"$settings/peers"
    [ -n "$heir" ] || return 0
    say "this disk is empty, and $heir knows a master at $address: waiting until its replica has taken over"
    sleep 1
    waited=$((waited + 1))
  done
}

# What this node comes to the others with: the first line of the file. The one password that must be here in clear, for
# redis-server sends it to its master, and redis-cli to every node.
own_password() {
  password=$(head -n 1 "$passwords/keeper" | tr -d '\r')
  [ -n "$password" ] || { say "the first line of $passwords/keeper is empty" >&2; return 1; }
  printf '%s' "$password"
}

sum_of_input() { sha256sum | head -c 64; }

new_password() { head -c 32 /dev/urandom | sum_of_input; }

# sums_of NAME: by what redis-server knows the user's passwords, sorted, a line for each: the first words of its file.
sums_of() {
  sums=$(awk '{ sub(/\r$/, "") } NF { if (length($1) != 64 || $1 ~ /[^0-9a-f]/) { is_bad = 1; exit } print $1; ++count }
    END { exit is_bad || count == 0 }' "$passwords/$1.sums") || {
    say "$passwords/$1.sums: want a line for each password of $1 that begins with its SHA-256" >&2
    return 1
  }
  # What locks this node out of the others is a mistake.
  [ "$1" != keeper ] || echo "$sums" | grep -qx "$(own_password | sum_of_input)" || {
    say "$passwords/keeper.sums has not the sum of the password in $passwords/keeper: write it there" >&2
    return 1
  }
  echo "$sums" | sort -u
}

# for_each_user COMMAND...: COMMAND... NAME RULES for each of the file `users`, until one fails.
for_each_user() {
  while read -r name rules; do
    case $name in '' | '#'*) continue ;; esac
    "$@" "$name" "$rules" </dev/null || return 1
  done <"$settings/users"
}

user_line() {
  sums=$(sums_of "$1") || return 1
  less=
  [ "$1" != keeper ] || [ ! -e "$scratch/closed" ] || less=' -psync'
  echo "user $1 on $(echo "$sums" | sed 's/^/#/' | tr '\n' ' ')$2$less"
}

# The users of the file `users`, who are all that there are beside two of this pod alone, whose passwords are made here and
# are in its memory: `self`, which changes the others' passwords (renew), and the exporter.
users() {
  echo "user default off"
  [ -z "$exporter" ] || echo "user exporter on #$(printf '%s' "$(cat "$exporter/password")" | sum_of_input) +info +cluster|info +latency|latest"
  echo "user self on #$(printf '%s' "$(cat "$scratch/self")" | sum_of_input) +acl|getuser +acl|setuser +client|kill +config|get +config|set +cluster|set-config-epoch +cluster|delslots"
  for_each_user user_line
}

# Whoever comes to the port has a password to show, so none of them needs a certificate. The bus knows no passwords:
# Redis itself asks everybody there for a certificate of this CA, which is why it has to be a CA of the nodes alone.
listen() {
  if [ -z "$tls" ]; then
    echo "port $port"
    return
  fi
  cat <<END
port 0
tls-port $port
tls-cluster yes
tls-replication yes
tls-protocols "TLSv1.3"
tls-auth-clients no
tls-ca-cert-file $tls/ca.crt
tls-cert-file $tls/tls.crt
tls-key-file $tls/tls.key
END
}

start() {
  umask 077
  await_successor
  new_password >"$scratch/self"
  # The exporter goes on with the one that it has.
  [ -z "$exporter" ] || [ -s "$exporter/password" ] || new_password >"$exporter/password"
  # Not in the list below, which goes on after a failure.
  acl=$(users)
  escaped=$(own_password | sed 's/[\\"]/\\&/g')
  {
    cat "$settings/redis.conf"
    echo "bind $address"
    listen
    echo "cluster-announce-ip $address"
    echo "dir $data"
    # Not echo, which may take backslashes for its own.
    printf '%s\nmasteruser keeper\nmasterauth "%s"\n' "$acl" "$escaped"
  } >"$scratch/redis.conf"
  unset REDISCLI_AUTH
  exec redis-server "$scratch/redis.conf"
}

# Asks all peers: $scratch/views has a file for each one that answers, by its line in `peers`, and $scratch/met its
# NUMBER ID ADDRESS, and `fresh` behind these if it has no epoch yet and can take one, for it knows nobody else.
look_around() {
  rm -rf "$scratch/views"
  mkdir -p "$scratch/views"
  number=0
  while read -r peer; do
    nodes_of "$peer" </dev/null >"$scratch/views/$number" || rm "$scratch/views/$number"
    number=$((number + 1))
  done <"$settings/peers"
  awk '
    { count[FILENAME] = FNR }
    $3 ~ /myself/ { split($2, parts, /[:@]/); met[FILENAME] = $1 " " parts[1]; epoch[FILENAME] = $7 }
    END { for (file in met) {
      parts_count = split(file, parts, "/")
      print parts[parts_count], met[file] (count[file] == 1 && epoch[file] == 0 ? " fresh" : "") } }' \
    "$scratch/views"/* >"$scratch/met" 2>/dev/null || true
  peer_count=$number
  my_id=$(awk '$3 ~ /myself/ { print $1 }' "$scratch/mine")
  my_number=$(awk -v id="$my_id" '$2 == id { print $1 }' "$scratch/met")
}

# Of two masters that meet with the same epoch one takes a later one, and if it dies before its replica has heard of that,
# the others deny the replica their votes. So a node takes an epoch before it meets anybody, when alone Redis lets it: the
# first that no node is known to have of those that are its line's, every peer_count-th. Nodes that choose at the same
# time choose differently, and so does one that lost its disk and comes to those who know the epoch that it had.
take_epoch() {
  awk 'END { exit !(NR == 1 && $7 == 0) }' "$scratch/mine" || return 0
  # Its own name may not lead here yet, or somebody else's still does.
  case $my_number in '' | *[!0-9]*) return 1 ;; esac
  epoch=$(cat "$scratch/views"/* | awk -v epoch="$((my_number + 1))" -v step="$peer_count" '
    { is_taken[$7] = 1 } END { while (epoch in is_taken) epoch += step; print epoch }')
  answer=$(ask_own CLUSTER SET-CONFIG-EPOCH "$epoch" || echo "no answer")
  say "CLUSTER SET-CONFIG-EPOCH $epoch: $answer"
  [ "$answer" = OK ]
}

# Whoever is not known under its present address is told of this node, and tells the others; not before it has its epoch.
greet() {
  awk -v port="$port" '
    FILENAME == ARGV[1] { if ($3 !~ /noaddr|handshake/) { sub(/@.*/, "", $2); at[$1] = $2 }; next }
    $4 == "" && at[$2] != $3 ":" port { print $3 }' "$scratch/mine" "$scratch/met" |
    while read -r ip; do do_it "$address" CLUSTER MEET "$ip" "$port" </dev/null || true; done
}

# Whether each slot is somebody's, as this node knows.
is_covered() { ask "$address" CLUSTER INFO | tr -d '\r' | grep -q "^cluster_slots_assigned:$slot_count\$"; }

# Whoever came with an empty disk may be copied from once each slot is somebody's who is there: then nobody waits for what
# was on that disk. Of slots of the node that it was this one has not heard, for only their owner tells of them.
open_up() {
  [ -e "$scratch/closed" ] && is_covered || return 0
  ! awk '$3 ~ /fail|noaddr/ && NF > 8 { found = 1 } END { exit !found }' "$scratch/mine" || return 0
  [ "$(ask_own ACL SETUSER keeper +psync)" = OK ] || return 0
  rm "$scratch/closed"
  say "may be copied from"
}

# Whether all peers answer, and each knows just these, and none of them failed: nobody else ever was in this cluster, or
# what he had was handed over. So slots that nobody has never held anything.
is_complete() {
  [ "$(wc -l <"$scratch/met")" -eq "$peer_count" ] || return 1
  for view in "$scratch/views"/*; do
    awk 'FILENAME == met { is_met[$2] = 1; next } !($1 in is_met) || $3 ~ /fail|handshake|noaddr/ { exit 1 } { ++count }
      END { if (count != expected) exit 1 }' met="$scratch/met" expected="$peer_count" "$scratch/met" "$view" || return 1
  done
}

# is_free FIRST LAST: whether nobody believes that somebody has one of these slots.
is_free() {
  cat "$scratch/views"/* | awk -v first="$1" -v last="$2" '
    { for (i = 9; i <= NF; ++i) {
        if (substr($i, 1, 1) == "[") continue
        ends = split($i, range, "-")
        if (range[1] + 0 <= last && range[ends] + 0 >= first) exit 1
      } }'
}

# The first node gives each master its part of the slots.
form() {
  [ "$my_number" = 0 ] && is_complete || return 0
  part=0
  while [ "$part" -lt "$master_count" ]; do
    first=$((part * slot_count / master_count))
    last=$(((part + 1) * slot_count / master_count - 1))
    if is_free "$first" "$last"; then
      ip=$(awk -v number="$part" '$1 == number { print $3 }' "$scratch/met")
      do_it "$ip" CLUSTER ADDSLOTSRANGE "$first" "$last" || return 0
    fi
    part=$((part + 1))
  done
}

# A node without slots becomes the replica of the master that has the fewest, and one of two replicas goes over to a
# master that has none. Nodes that choose at the same time choose differently.
follow() {
  is_covered || return 0
  chosen=$(sort "$scratch/mine" | awk -v me="$my_id" -v number="${my_number:-0}" '
    $3 ~ /fail|handshake|noaddr/ { next }
    $1 == me { mine = ($3 ~ /slave/) ? $4 : ""; has_slots = NF > 8; next }
    $3 ~ /master/ && NF > 8 { masters[++count] = $1 }
    $3 ~ /slave/ { ++replicas[$4]; if (!($4 in smallest)) smallest[$4] = $1 }
    END {
      if (has_slots || count == 0) exit
      fewest = 1e9
      for (i = 1; i <= count; ++i) if (replicas[masters[i]] + 0 < fewest) fewest = replicas[masters[i]] + 0
      # Of replicas: only with another one of its master, and only the one of them with the smaller id.
      if (mine != "" && (fewest > 0 || replicas[mine] + 0 == 0 || smallest[mine] < me)) exit
      for (i = 1; i <= count; ++i) if (replicas[masters[i]] + 0 == fewest) best[++best_count] = masters[i]
      print best[number % best_count + 1]
    }')
  [ -n "$chosen" ] || return 0
  do_it "$address" CLUSTER REPLICATE "$chosen" || true
  # Of whom it follows now; reconnect would lead it back to the other one, as long as the link is not up.
  nodes_of "$address" >"$scratch/mine" || true
}

# Of its master's new address a replica may hear from another node before its master greets it, and then Redis goes on to
# connect to the old one, for ever.
reconnect() {
  known=$(awk '
    { at[$1] = $2; flags[$1] = $3 }
    $3 ~ /myself/ && $3 ~ /slave/ { master = $4 }
    END { if (master in at && flags[master] !~ /fail|handshake|noaddr/) { sub(/@.*/, "", at[master]); print master, at[master] } }
    ' "$scratch/mine")
  [ -n "$known" ] || return 0
  if ask "$address" INFO replication | tr -d '\r' | awk -F: -v known="${known#* }" '
      { value[$1] = $2 }
      END { exit !(value["master_link_status"] == "down" && value["master_host"] ":" value["master_port"] != known) }'; then
    do_it "$address" CLUSTER REPLICATE "${known% *}" || true
  fi
}

# With all peers there, a node that failed and has no slots is one that came back without its disk, under a new id.
forget() {
  [ "$(wc -l <"$scratch/met")" -eq "$peer_count" ] || return 0
  awk 'FILENAME == met { is_met[$2] = 1; next } !($1 in is_met) && $3 ~ /(^|,)(fail|noaddr)(,|$)/ && NF <= 8 { print $1 }' \
    met="$scratch/met" "$scratch/met" "$scratch/mine" |
    while read -r id; do do_it "$address" CLUSTER FORGET "$id" </dev/null || true; done
}

# A replica asks for votes with what it knows: the slots of its master, and their epoch. Whoever knows a later epoch of the
# same slots denies it, and tells it nothing, so that it is denied for ever: its master died before it heard of that epoch.
# To a replica that knows of other slots than he does, a node tells slots and epoch. So this one forgets a slot, and is told;
# and a majority votes, as always. It forgets none before one of the masters would deny it, for with a vote of each it would
# take over without that slot; nor a second one, nor when it follows nobody any more.
learn() {
  nodes_of "$address" >"$scratch/mine" || return 0
  slot=$(awk '
    FNR == 1 { ++file }
    { slots = ""; for (i = 9; i <= NF; ++i) slots = slots " " $i }
    file == 1 && $3 ~ /myself/ && $3 ~ /slave/ { master = $4 }
    file == 1 { flags[$1] = $3; epoch[$1] = $7; has[$1] = slots; first[$1] = $9; next }
    $3 ~ /myself/ && $3 ~ /master/ && NF > 8 { can_vote[file] = 1 }
    $1 == master && NF > 8 && $7 + 0 > epoch[$1] + 0 && slots == has[$1] { knows_better[file] = 1 }
    END {
      if (master == "" || flags[master] !~ /fail(,|$)|noaddr/) exit
      split(first[master], range, "-")
      for (file in knows_better) if (file in can_vote) { print range[1]; exit }
    }' "$scratch/mine" "$scratch/views"/*)
  [ -n "$slot" ] || return 0
  say "masters know a later epoch of its failed master: CLUSTER DELSLOTS $slot: $(ask_own CLUSTER DELSLOTS "$slot")"
}

# A replica that has started anew, or was without its master for a minute, asks for no votes: its master may come back with
# more than it has. If all peers answer, each another one, and none of them is its master, that one's disk is gone, and
# nobody has more. A majority votes all the same. Which of two replicas has more nobody knows but a person.
inherit() {
  heirs=$(awk -v expected="$peer_count" '
    FILENAME == ARGV[1] { if (!($2 in is_met)) ++count; is_met[$2] = 1; next }
    { flags[$1] = $3; has_slots[$1] = NF > 8 }
    $3 ~ /slave/ { ++replicas[$4]; if ($3 ~ /myself/) master = $4 }
    END {
      if (count != expected || !has_slots[master] || master in is_met || flags[master] !~ /fail(,|$)|noaddr/) exit
      print replicas[master] }' "$scratch/met" "$scratch/mine")
  case $heirs in
    '') ;;
    1) do_it "$address" CLUSTER FAILOVER FORCE || true ;;
    *) say "the disk of its master is lost, which has $heirs replicas: choose the one that takes over" ;;
  esac
}

known_sums_of() {
  ask_own ACL GETUSER "$1" | awk '$0 == "commands" { exit } is_in { print } $0 == "passwords" { is_in = 1 }' | sort
}

# A password that goes takes the connections of its user with it, for whoever else knows it may have some. Of those who
# come with a new one nothing is lost: they come again. The file `ending` is there from before the password goes until they
# have ended, whatever fails or stops in between.
renew_user() {
  ending=$scratch/ending-$1
  wanted=$(sums_of "$1") || return 1
  known=$(known_sums_of "$1")
  # Nothing is known of a redis-server that does not answer (yet).
  [ -n "$known" ] || return 1
  if [ "$wanted" != "$known" ]; then
    for old in $known; do
      case $wanted in *"$old"*) ;; *) touch "$ending" || return 1 ;; esac
    done
    # shellcheck disable=SC2046 # A word for each.
    ask_own ACL SETUSER "$1" resetpass $(echo "$wanted" | sed 's/^/#/') >/dev/null || return 1
    say "$1 may come with $(echo "$wanted" | wc -l) passwords: they have changed"
  fi
  [ -e "$ending" ] || return 0
  ask_own CLIENT KILL USER "$1" >/dev/null || { say "the connections of $1 could not be ended"; return 1; }
  rm "$ending"
}

known_password() { ask_own CONFIG GET masterauth | tail -n 1; }

# Whatever the mounted Secret says by now, once: a redis-server that starts later has read it, too.
# First what this node comes with: a sum that goes may be that of the old one.
renewed=
renew() {
  mounted=$(cat "$passwords/keeper" "$passwords"/*.sums) || return 1
  [ "$mounted" != "$renewed" ] || return 0
  # Mending goes on with the password of before if there is none.
  come_with=$(own_password) || return 1
  REDISCLI_AUTH=$come_with
  if [ "$(known_password)" != "$REDISCLI_AUTH" ]; then
    # By standard input, for arguments can be listed.
    printf '%s' "$REDISCLI_AUTH" | ask_own -x CONFIG SET masterauth >/dev/null || return 1
    say "comes to the others with a new password"
  fi
  for_each_user renew_user || return 1
  renewed=$mounted
}

certificates() { cat "$tls/ca.crt" "$tls/tls.crt" "$tls/tls.key" | sum_of_input; }

# redis-server takes what is mounted by now when it is told the same names once more; whoever is connected stays so. At first
# it is told what it has read itself, for it may have started before this did. Files that do not go together it refuses,
# and goes on with those of before.
shown=
show_certificates() {
  [ -n "$tls" ] || return 0
  here=$(certificates)
  [ "$here" != "$shown" ] || return 0
  # It does not answer before it has started.
  ask_own CONFIG GET tls-port >/dev/null || return 1
  if ! ask_own CONFIG SET tls-ca-cert-file "$tls/ca.crt" tls-cert-file "$tls/tls.crt" tls-key-file "$tls/tls.key" >/dev/null; then
    say "redis-server refuses the certificate that is mounted by now, and goes on with that of before: its log says why"
    return 1
  fi
  [ -z "$shown" ] || say "shows the certificate that is mounted by now"
  shown=$here
}

# Who is connected notices nothing when it ends; whoever comes then is not let in, replicas among them.
looked=
look_at_time() {
  [ -n "$shown" ] || return 0
  now="$(date +%F) $shown"
  [ "$now" != "$looked" ] || return 0
  looked=$now
  for file in tls.crt ca.crt; do
    openssl x509 -in "$tls/$file" -noout -checkend "$((certificate_days * 86400))" >/dev/null 2>&1 ||
      say "$file of this node ends within $certificate_days days, has ended, or is none: renew the Secret kerf-redis-tls"
  done
}

# Nothing of a user who may still have connections with a password that went. Redis is asked first: renew_user makes the
# file before it changes what Redis says.
show_user() {
  shown=$(known_sums_of "$1" | tr '\n' ' ')
  [ -e "$scratch/ending-$1" ] || echo "$1 $shown"
}

passwords() {
  for_each_user show_user
  echo "own $(printf '%s' "$(known_password)" | sum_of_input)"
}

tend() {
  # What it could not do it does the next time.
  show_certificates || true
  look_at_time || true
  renew || true
  nodes_of "$address" >"$scratch/mine" || return 0
  look_around
  take_epoch || return 0
  greet
  form
  open_up
  follow
  reconnect
  learn
  inherit
  forget
}

keep() {
  trap 'exit 0' TERM INT
  mkdir -p "$scratch"
  while true; do
    tend || say "something went wrong; again in $pause_s s"
    sleep "$pause_s" &
    wait $!
  done
}

# In whatever words: it loads, or wants a password.
alive() { [ -n "$(ask "$address" PING)" ]; }

ready() {
  ask "$address" CLUSTER INFO | tr -d '\r' | grep -q '^cluster_state:ok$' || return 1
  ask "$address" INFO replication | tr -d '\r' | grep -Eq '^(role:master|master_link_status:up)$'
}

leave() {
  mine=$(nodes_of "$address") || return 0
  taker=$(echo "$mine" | awk '
    $3 ~ /myself/ { me = $1; next } { lines[++count] = $0 }
    END { for (i = 1; i <= count; ++i) {
      split(lines[i], field, " ")
      if (field[4] == me && field[3] == "slave" && field[8] == "connected") {
        split(field[2], parts, /[:@]/); print parts[1]; exit } } }')
  [ -n "$taker" ] || return 0
  do_it "$taker" CLUSTER FAILOVER || return 0
  waited=0
  while [ "$waited" -lt "$leave_s" ] && ask "$address" INFO replication | grep -q '^role:master'; do
    sleep 1
    waited=$((waited + 1))
  done
}

# redis-cli takes it from its environment; it stands in no argument, and in no manifest. A node that runs goes on with the
# password that it knows if the Secret has none any more.
REDISCLI_AUTH=$(own_password) || {
  [ "${1:-}" != start ] || exit 1
  REDISCLI_AUTH=$(known_password)
  [ -n "$REDISCLI_AUTH" ] || exit 1
}
export REDISCLI_AUTH
case ${1:-} in
  start) start ;;
  keep) keep ;;
  alive) alive ;;
  ready) ready ;;
  leave) leave ;;
  passwords) passwords ;;
  *) echo "usage: keeper.sh start|keep|alive|ready|leave|passwords" >&2; exit 2 ;;
esac
