import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { nodePaths } from '../../lab/plan/names.ts';
import { decodeJournal } from '../../src/pods/ipam/journal-records.ts';
import type { ConvergeLab } from './converge-lab.ts';

/** What a node holds for containers; each must be one for every container that lives. */
export interface Holdings {
  readonly interfaces: number;
  readonly ports: readonly string[];
  /** In the first table, where each port has one. */
  readonly flows: number;
  readonly leases: readonly string[];
  readonly quarantined: number;
}

/** Of a lab's first node, as kernel, switch and journal have it. */
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
    // Of standing ports, those that say whose they are.
    interfaces: inNode.length + farEnds.split('\n').filter((line) => line.includes(' alias ')).length,
    ports: data.flatMap(([[, ids]]) => ids.filter(([key]) => key === 'container-id').map(([, id]) => id)).toSorted(),
    flows: flows.split('\n').filter((line) => line.includes('actions=')).length,
    leases: [...leases.values()].filter((lease) => !lease.endsWith('quarantined')).toSorted(),
    quarantined: [...leases.values()].filter((lease) => lease.endsWith('quarantined')).length,
  };
}
