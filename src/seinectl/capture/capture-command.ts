import { type Command, InvalidArgumentError } from 'commander';
import type { AgentsContext, ClusterFlags } from '../fleet/agents-command.ts';
import { addClusterOptions, clusterHelp, isLocal } from '../fleet/agents-of-command.ts';
import { secondsUpToADay } from '../time-option.ts';
import type { CaptureOptions } from './capture-options.ts';

interface CaptureContext extends AgentsContext {
  /** Captures on this node; absent in a program for hosts that are not nodes. */
  readonly here?: (name: string, options: CaptureOptions) => Promise<number>;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

type CaptureFlags = Omit<CaptureOptions, 'bytes'> & ClusterFlags & { readonly megabytes: number };

const FRAMES_MAX = 1_000_000;
const MEGABYTE = 1_000_000;
const MEGABYTES_MAX = 1_000;

const help = `
At the node's end of the pod's interface: packets that the pod sends, before OVS processes them, and packets that OVS forwards to it. For a veth pair and a
pre-plugged port (sp-N) alike. Each frame is cut to its first 2,048 bytes. By default it ends after 30 seconds, 1,000 frames or
10 MB, whichever is first. It contains payloads: a file is created with mode 0600, and must not exist.

Examples:
  seinectl capture shop/web-0                              a line for each frame
  seinectl capture shop/web-0 --for 5m --count 100000 -w /tmp/web-0.pcap
  seinectl capture shop/web-0 -w - | tcpdump -nr -         filters and details are tcpdump's

Exit codes: 0 it has ended; 1 the node has no such pod; 2 the file cannot be created, or the interface is ambiguous; 3 no agent answers.
${clusterHelp}`;

/** Adds `seinectl capture`. Modules that only it needs are loaded on use. */
export function addCapture(root: Command, context: CaptureContext): void {
  const { agent, here, exitWith } = context;
  addClusterOptions(root.command('capture'))
    .description('print the packets of a pod as lines, or write them to a pcap file')
    .argument('<pod>', 'NAME or NAMESPACE/NAME')
    .option('-w, --write <file>', 'write a pcap file, which must not exist; - for standard output')
    .option('--interface <name>', 'interface by its name in the pod, if the pod has several')
    .option('--for <time>', 'maximum duration, e.g. 30s or 5m; at most a day', secondsUpToADay, 30)
    .option('--count <frames>', 'maximum number of frames', upTo(FRAMES_MAX, 1), 1_000)
    .option('--megabytes <number>', 'maximum size of the capture', upTo(MEGABYTES_MAX, 1), 10)
    .addHelpText('after', help)
    .action((name: string, { megabytes, ...flags }: CaptureFlags) => {
      const options = { ...flags, bytes: megabytes * MEGABYTE };
      if (here && isLocal(agent(), flags)) return exitWith(here(name, options));
      const full = name.includes('/') ? name : `default/${name}`;
      return exitWith(import('./capture-elsewhere.ts').then(({ captureElsewhere }) => captureElsewhere(full, options, flags, context)));
    });
}

function upTo(most: number, least: number): (text: string) => number {
  return (text) => {
    const found = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (!(found >= least && found <= most)) throw new InvalidArgumentError(`must be a whole number from ${least} to ${most}.`);
    return found;
  };
}
