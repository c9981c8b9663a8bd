import { type Command, Option } from 'commander';
import { type DecodeOptions, decode } from './decode.ts';
import { type FlowsOptions, flows, versionsByName } from './flows.ts';
import type { WireContext } from './wire-context.ts';

const decodeExamples = `
Bytes may be separated by blanks, colons or 0x, and several messages may follow one another.

Examples:
  seinectl wire decode 0615000800000001
  seinectl wire decode --json 060100140000000200020009 00000000 00000000
  seinectl wire decode - < messages.hex                    one answer per line, also for invalid messages
  seinectl wire flows --hex flows.txt | seinectl wire decode

Exit codes: 0 all were read; 1 some were not, their lines have the reason: error: PROTOCOL: …`;

const flowsExamples = `
One flow, group (group_id=…) or meter (meter=…) a line, in the syntax of ovs-ofctl(8); # begins a comment. What dump-flows,
dump-groups and dump-meters print is read too, without counters.

Examples:
  echo 'table=3,tcp,tp_dst=80 actions=mod_nw_ttl:9,2' | seinectl wire flows
  seinectl wire flows --hex -O OpenFlow13 flows.txt        flow-mods, group-mods and meter-mods that add them
  ovs-ofctl dump-flows br-int | seinectl wire flows        dumps, in one form and without counters

Exit codes: 0 all were read; 1 some were not: standard error has FILE:LINE:COLUMN: the reason and the words.`;

/** `seinectl wire decode` and `seinectl wire flows`. */
export function addOpenFlow(wire: Command, { terminal, stdin, exitWith }: WireContext): void {
  wire
    .command('decode')
    .description('print OpenFlow messages (1.3 and 1.5) given as hexadecimal bytes, like ovs-ofctl ofp-print, one line each')
    .argument('[hex...]', 'bytes of messages; - is standard input, one answer per line')
    .option('--json', 'print each message as one JSON value')
    .addHelpText('after', decodeExamples)
    .action((hex: readonly string[], options: DecodeOptions) => exitWith(decode(hex, options, terminal, stdin)));
  wire
    .command('flows')
    .description('read flows, groups and meters as ovs-ofctl writes them; print them in canonical form, or as bytes')
    .argument('[file]', 'text; - is standard input')
    .option('--hex', 'the messages that add them, as hexadecimal bytes')
    .addOption(
      new Option('-O, --protocol <version>', 'version of OpenFlow')
        .choices(Object.keys(versionsByName))
        .default('OpenFlow15' satisfies FlowsOptions['protocol']),
    )
    .addHelpText('after', flowsExamples)
    .action((file: string | undefined, options: FlowsOptions) => exitWith(flows(file, options, terminal, stdin)));
}
