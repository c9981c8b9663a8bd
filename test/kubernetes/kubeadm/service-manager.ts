/**
 * Program that stands in for systemd on a machine of the lab: `systemctl` for one unit, the kubelet, with the command line that the Debian package
 * of kubeadm gives to it (10-kubeadm.conf). The kubelet is started again when it ends, like with `Restart=always`.
 *
 * @param dir folder of the machine where state and log are kept
 */
export function serviceManagerScript(dir: string): string {
  return `#!/bin/sh
# systemctl of the lab: knows the unit kubelet.
set -eu
dir='${dir}'
verb=$1
shift
unit=
for word; do case $word in -*) ;; *) unit=\${word%.service} ;; esac; done
running() { [ -e "$dir/kubelet.pid" ] && kill -0 "$(cat "$dir/kubelet.pid")" 2>/dev/null; }
stop() {
  rm -f "$dir/kubelet.wanted"
  for file in supervisor kubelet; do
    [ -e "$dir/$file.pid" ] || continue
    pid=$(cat "$dir/$file.pid")
    kill "$pid" 2>/dev/null || true
    for try in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    rm -f "$dir/$file.pid"
  done
}
start() {
  touch "$dir/kubelet.wanted"
  running || setsid sh "$dir/kubelet-supervisor" </dev/null >>"$dir/kubelet.log" 2>&1 &
}
case $verb in
daemon-reload | enable) exit 0 ;;
esac
[ "$unit" = kubelet ] || { echo "Unit $unit.service could not be found."; exit 4; }
case $verb in
start) start ;;
restart) stop; start ;;
stop) stop ;;
is-enabled) echo enabled ;;
is-active) if running; then echo active; else echo inactive; exit 3; fi ;;
status) echo 'Loaded: loaded'; running ;;
*) echo "systemctl of the lab: no verb $verb" >&2; exit 1 ;;
esac
`;
}

/** Loop that runs the kubelet for as long as it is wanted. */
export function kubeletSupervisorScript(dir: string): string {
  return `echo $$ > '${dir}/supervisor.pid'
while [ -e '${dir}/kubelet.wanted' ]; do
  KUBELET_KUBEADM_ARGS=
  [ ! -e /var/lib/kubelet/kubeadm-flags.env ] || . /var/lib/kubelet/kubeadm-flags.env
  kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \\
    --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS &
  echo $! > '${dir}/kubelet.pid'
  wait $! || true
  sleep 1
done
`;
}
