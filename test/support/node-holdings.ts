import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { nodePaths } from '../../lab/plan/names.ts';
import { decodeJournal } from '../../src/pods/ipam/journal-records.ts';
import type { ConvergeLab } from './converge-lab.ts';

/** Objects of a node for containers; the number of each must equal that of live containers. */
export interface Holdings {
  readonly interfaces: number;
  readonly ports: readonly string[];
  /** Flows of the first table, which has one for each port. */
  readonly flows: number;
  readonly leases: readonly string[];
  readonly quarantined: number;
}

/** Objects of a lab's first node, in kernel, OVS and journal. */
export async function holdingsOf(lab: ConvergeLab): Promise<Holdings> {
  const paths = nodePaths(lab.plan.dir, lab.node(1).name);
  const fars = paths.portsNamespace;
  const [links, farEnds, ports, flows] = await Promise.all([
    lab.exec(1, 'ip', '-br', 'link', 'show', 'type', 'veth'),
    existsSync(fars) ? lab.exec(1, 'nsenter', `--net=${fars}`, 'ip', '-o', 'link') : '',
    lab.exec(1, 'ovs-vsctl', '--format=json', '--columns=external_ids', 'list', 'Port'),
    lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'cookie=0x1030000000000/0xffffff0000000000,table=0'),
  ]);
  const leases = new Map<number, string>();
  for (const record of decodeJournal(readFileSync(join(paths.stateDir, 'ipam.journal'), 'utf8')).records) {
    if (record.op === 'lease')
      leases.set(record.lease.serial, `${record.lease.containerId}${record.lease.state === 'allocated' ? '' : ' quarantined'}`);
    else if (record.op === 'quarantine') leases.set(record.serial, `${leases.get(record.serial)} quarantined`);
    else if (record.op === 'free') leases.delete(record.serial);
  }
  const { data } = JSON.parse(ports) as { data: [['map', [string, string][]]][] };
  const inNode = links.split('\n').filter((line) => /^[a-z0-9]{1,7}-[0-9a-f]{7}@/.test(line));
  return {
    // Of pre-plugged ports, those with an owner.
    interfaces: inNode.length + farEnds.split('\n').filter((line) => line.includes(' alias ')).length,
    ports: data.flatMap(([[, ids]]) => ids.filter(([key]) => key === 'container-id').map(([, id]) => id)).toSorted(),
    flows: flows.split('\n').filter((line) => line.includes('actions=')).length,
    leases: [...leases.values()].filter((lease) => !lease.endsWith('quarantined')).toSorted(),
    quarantined: [...leases.values()].filter((lease) => lease.endsWith('quarantined')).length,
  };
}
