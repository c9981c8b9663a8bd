import type { LabOptions } from '../../lab/plan/plan.ts';

const variable = 'SEINE_TEST_MODE';

type ModeOptions = Pick<LabOptions, 'mode' | 'subnets' | 'encryption'>;

/** Labs of `npm run test:modes`, by name. With `hybrid`, every second node is behind a router, so both ways are used. */
const labs: Readonly<Record<string, ModeOptions>> = {
  noEncap: { mode: 'noEncap' },
  hybrid: { mode: 'hybrid', subnets: 2 },
  wireguard: { encryption: 'wireguard' },
};

/** Traffic mode of labs of tests that do not request one themselves; the tunnel, unless a run requests another. */
export const testMode: ModeOptions = modeIn(process.env[variable]);

function modeIn(text: string | undefined): ModeOptions {
  if (text === undefined) return {};
  const options = Object.hasOwn(labs, text) ? labs[text] : undefined;
  if (options === undefined) throw new Error(`${variable}=${text}: ${Object.keys(labs).join(', ')} is wanted`);
  return options;
}
