import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { BenchLab } from './bench-lab.ts';
import { cniRows } from './cni-rows.ts';
import { type Measured, rowOf, tableOf } from './row.ts';

const say = (text: string): void => void process.stderr.write(`${text}\n`);
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    families: { type: 'string', default: 'ipv4,ipv6' },
  },
});
const wanted = (name: string): boolean => name.startsWith(values.only);
const measured: Measured[] = [];
const lab = await BenchLab.start({ families: values.families.split(',') as ('ipv4' | 'ipv6')[] });
try {
  measured.push(...(await cniRows(lab, { wanted, say })));
} finally {
  await lab.remove();
}
const rows = measured.map(rowOf);
say(tableOf(rows));
say(String(loadavg()));
if (values.json) process.stdout.write(`${JSON.stringify(rows)}\n`);
