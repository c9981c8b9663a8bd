import { type OptionRows, type OptionValues, UsageError } from './options.ts';
import { type Architecture, architectures } from './record.ts';

/** Options of steps that build with podman. */
export const buildRows = {
  arch: {
    value: 'LIST',
    fallback: architectures.join(','),
    about: 'architectures, with commas between them; programs of images for other machines are emulated',
  },
  base: { value: 'IMAGE', env: 'SEINE_BASE', about: 'Debian of the agent’s image; {arch} stands for the architecture' },
  'ovs-base': { value: 'IMAGE', env: 'SEINE_OVS_BASE', about: 'Debian of the image of Open vSwitch' },
  'build-base': {
    value: 'IMAGE',
    env: 'SEINE_BUILD_BASE',
    about: 'Debian with Node and npm, which builds; {arch} stands for that of this host',
  },
  builder: { value: 'URI', env: 'SEINE_BUILDER', about: 'builder in the provenance' },
} as const satisfies OptionRows;

type BuildValues = OptionValues<keyof typeof buildRows>;

/** Architectures of `--arch`. @throws UsageError naming an unknown one */
export function chosenArchitectures(values: BuildValues): Architecture[] {
  return values
    .text('arch')
    .split(',')
    .map((each) => {
      const found = architectures.find((name) => name === each);
      if (found === undefined) throw new UsageError(`--arch ${JSON.stringify(each)}: expected ${architectures.join(' or ')}`);
      return found;
    });
}

const own: Architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';

/** True if programs of another machine run; only arm64 is emulated. @throws UsageError for amd64 on arm64 */
export function needsEmulation(chosen: readonly Architecture[]): boolean {
  const foreign = chosen.filter((each) => each !== own);
  if (foreign.includes('amd64')) throw new UsageError('--arch amd64: this host is arm64 and does not emulate amd64; use --arch arm64');
  return foreign.length > 0;
}

interface BuildRequest {
  readonly values: BuildValues;
  readonly architecture: Architecture;
  /** In front of the names of images. */
  readonly prefix: string;
  readonly out: string;
  readonly only: readonly string[];
}

/** Arguments of `build/images/build.mjs`. */
export function buildArguments({ values, architecture, prefix, out, only }: BuildRequest): string[] {
  const bases = (['base', 'ovs-base', 'build-base', 'builder'] as const).flatMap((name) => {
    const value = values.optional(name);
    // What builds runs on this host, and compiles for the other architecture.
    return value === undefined ? [] : [`--${name}`, value.replaceAll('{arch}', name === 'build-base' ? own : architecture)];
  });
  const more = values.more.length === 0 ? [] : ['--', ...values.more];
  return ['--registry', prefix, '--platform', `linux/${architecture}`, '--only', only.join(','), '--out', out, ...bases, ...more];
}
