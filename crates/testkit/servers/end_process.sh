# For the scripts beside it, which source it.

end_process() { # PID_FILE SIGNAL LOOKS: SIGKILL after so many looks, 50 ms apart
  local pid n
  read -r pid <"$1"
  kill -"$2" "$pid" 2>/dev/null || true
  for ((n = 0; ; n++)); do
    kill -0 "$pid" 2>/dev/null || break
    # Where nobody reaps it, it stays as a zombie; it is gone when its last thread is.
    [[ $(<"/proc/$pid/stat") != *") Z "* || $(echo "/proc/$pid/task/"*) == *" "* ]] 2>/dev/null || break
    [ "$n" -ne "$3" ] || kill -9 "$pid" 2>/dev/null || true
    sleep 0.05
  done
}
