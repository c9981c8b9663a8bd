#!/bin/bash
# Shows that the virtual machine's kernel can carry Open vSwitch: two nodes as namespaces, each with its own ovs-vswitchd on
# the kernel's data path, joined by Geneve; a pod's interface on one pings one on the other, through conntrack.
set -euo pipefail
work=$(mktemp -d /run/smoke.XXXX)

start_node() { # number
  local node=node$1 dir=$work/$1
  export OVS_RUNDIR=$dir OVS_DBDIR=$dir OVS_LOGDIR=$dir OVS_SYSCONFDIR=$dir
  mkdir -p "$dir"
  ovsdb-tool create "$dir/conf.db" /usr/share/openvswitch/vswitch.ovsschema
  nsenter --net=/run/netns/$node ovsdb-server "$dir/conf.db" --remote=punix:"$dir/db.sock" --pidfile --log-file --no-chdir --detach -vconsole:off
  ovs-vsctl --no-wait init
  nsenter --net=/run/netns/$node ovs-vswitchd "unix:$dir/db.sock" --pidfile --log-file --no-chdir --detach -vconsole:off
  ovs-vsctl add-br br0 -- set bridge br0 datapath_type=system fail_mode=secure \
    -- add-port br0 tunnel -- set interface tunnel type=geneve options:remote_ip=192.0.2.$((3 - $1)) options:key=7 ofport_request=1 \
    -- add-port br0 host$1 -- set interface host$1 ofport_request=2
  ovs-ofctl -O OpenFlow15 --bundle replace-flows br0 - <<FLOWS
table=0,priority=10,ip,actions=ct(table=1,zone=5)
table=0,priority=1,actions=NORMAL
table=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5),NORMAL
table=1,ip,ct_state=+est+trk,actions=NORMAL
FLOWS
}

for n in 1 2; do
  ip netns add node$n
  ip netns add pod$n
  ip -n node$n link set lo up
done
ip -n node1 link add eth0 type veth peer name eth0 netns node2
for n in 1 2; do
  ip -n node$n addr add 192.0.2.$n/24 dev eth0
  ip -n node$n link set eth0 up
  ip -n node$n link add host$n type veth peer name eth0 netns pod$n
  ip -n node$n link set host$n up mtu 1450
  ip -n pod$n link set eth0 up mtu 1450
  ip -n pod$n addr add 198.51.100.$n/24 dev eth0
  start_node $n
done

ip netns exec pod1 ping -c 1 -W 5 198.51.100.2 >/dev/null || true
ip netns exec pod1 ping -c 5 -i 0.2 -W 2 198.51.100.2
for n in 1 2; do OVS_RUNDIR=$work/$n ovs-appctl dpctl/show; done
OVS_RUNDIR=$work/1 ovs-appctl dpctl/dump-conntrack zone=5
uname -r
