#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --session-id|--resume) id=$2 ;; esac
  shift
done
# With a folder of gates, each session has its own, and says there which process it is.
gate=$HOME/gate
if [ -d "$HOME/gates" ]; then
  gate=$HOME/gates/$id
  echo $$ > "$gate.new"
  mv "$gate.new" "$gate.pid"
fi
cat > "$HOME/input"
ulimit -Sn > "$HOME/limit"
root=$HOME/.claude
mkdir -p "$root/sessions" "$root/projects/-work"
start=$(cut -d' ' -f22 /proc/$$/stat)
record() {
  printf '{"type":"%s","uuid":"%s","sessionId":"%s","cwd":"%s","timestamp":"%s","message":%s}\n' "$1" \
    "$(cat /proc/sys/kernel/random/uuid)" "$id" "$PWD" "$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)" "$2" \
    >> "$root/projects/-work/$id.jsonl"
}
say() {
  printf '{"pid":%s,"sessionId":"%s","cwd":"%s","procStart":"%s","kind":"interactive","status":"%s"}' \
    $$ "$id" "$PWD" "$start" "$1" > "$root/sessions/$$.json"
}
reply() {
  record assistant '{"role":"assistant","model":"m","content":[{"type":"text","text":"'"$1"'"}],"stop_reason":'"$2"',"usage":{"input_tokens":1,"output_tokens":1}}'
}
record user '{"role":"user","content":"do it"}'
reply begun null
say busy
while [ ! -e "$gate" ]; do sleep 0.02; done
reply done '"end_turn"'
rm "$root/sessions/$$.json"
if [ -e "$HOME/break" ]; then
  mv "$root/projects" "$root/aside"
  echo "no folder" > "$root/projects"
fi
