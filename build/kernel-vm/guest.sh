#!/bin/bash
# Runs as process 1 of the virtual machine, on the host's file system. The shared folder has `modules` (path of the
# kernel's modules) and `job.sh` (the script to run); `stdout`, `stderr` and `exit-code` are written to it.
shared=/run/seine-vm
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
phase() { echo "$(cut -d' ' -f1 /proc/uptime) $1" >>$shared/phases; }

phase 'kernel is up'
hostname seine-vm
ip link set lo up
# Mounts of an init system that container runtimes require: control groups, and AppArmor's interface for profiles.
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t securityfs securityfs /sys/kernel/security
mkdir -p /lib/modules
mount --bind "$(cat $shared/modules)" /lib/modules
modprobe -a openvswitch vport-geneve vport-vxlan vport-gre veth bridge dummy tun nf_tables nft_nat nft_masq nft_ct nft_fib_inet \
  nft_chain_nat nft_numgen nft_reject_inet sctp wireguard ip6_gre nf_conntrack_netlink macvlan sch_ingress sch_tbf act_police cls_u32 ifb
# Open vSwitch 3.1 loses every upcall if ovs-vswitchd starts within ten seconds of boot: it takes no handler threads then.
until [ "$(cut -d. -f1 /proc/uptime)" -ge 11 ]; do read -rt 0.2 <> <(:) || true; done
phase 'job starts'
# Progress for observers: emulated, a job can be silent for minutes.
while sleep 60; do phase "at work, load $(cut -d' ' -f1 /proc/loadavg)"; done &
bash $shared/job.sh >$shared/stdout 2>$shared/stderr </dev/null
code=$?
phase 'job ended'
dmesg >$shared/dmesg
echo $code >$shared/exit-code
sync
echo o >/proc/sysrq-trigger
while :; do read -rt 60 <> <(:) || true; done
