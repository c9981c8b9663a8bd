import { type DatapathCapabilities, datapathFeatures } from '../../src/dataplane/targets/switch/datapath-features.ts';

/** The table of `docs/data-paths.md`: results of the tests on each data path. Names are those of `seinectl status --json`. */
export function dataPathsTable(kernel: DatapathCapabilities, userspace: DatapathCapabilities): string {
  const rows = Object.entries<{ use: string; without?: string }>(datapathFeatures).map(([name, { use, without }]) => {
    const feature = name as keyof DatapathCapabilities;
    return `| \`${name}\` | ${said(kernel[feature])} | ${said(userspace[feature])} | ${use}${without === undefined ? '' : `; without it ${without}`} |`;
  });
  return ['| Feature | Kernel 6.1 | Userspace | What Seine does with it |', '|---|---|---|---|', ...rows].join('\n');
}

function said(value: boolean | number | null): string {
  if (value === null) return '–';
  return typeof value === 'number' ? String(value) : value ? 'yes' : '**no**';
}
