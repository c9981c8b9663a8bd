import { stringify as toYaml } from 'yaml';
import { formatPath } from '../../kubernetes/client/resource.ts';
import { quoted } from '../../kubernetes/resources/object-faults.ts';
import { convertPolicies } from '../../policy/convert/convert.ts';
import type { ConversionLoss } from '../../policy/convert/losses.ts';
import { safeLine, safeText } from '../escape.ts';
import { print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import { convertExitCodes } from './reach-exit-codes.ts';
import { readManifests } from './sources.ts';

export interface ConvertOptions {
  readonly filename: readonly string[];
  readonly output: 'yaml' | 'json';
}

/** `seinectl policy convert`: ClusterNetworkPolicies from policies of other APIs. @returns the exit code */
export function printConverted({ filename, output }: ConvertOptions, terminal: Terminal): number {
  const { policies, losses, read, ignored } = convertPolicies(filename.flatMap((path) => readManifests(path)));
  if (output === 'json') print(terminal, { apiVersion: 'v1', kind: 'List', items: policies }, 'json');
  else
    for (const policy of policies)
      terminal.line(safeText(`---\n${toYaml(policy, { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd()}`));
  for (const loss of losses) terminal.remark(safeLine(lossLine(loss)));
  const others = [...ignored].map(([kind, number]) => `${number} ${kind}`).join(', ');
  terminal.remark(
    safeLine(
      `${count(read, 'policy', 'policies')} read, ${count(policies.length, 'ClusterNetworkPolicy', 'ClusterNetworkPolicies')} written, ` +
        `${count(losses.length, 'part')} left out${others === '' ? '' : `; not policies: ${others}`}`,
    ),
  );
  if (losses.length === 0) return convertExitCodes.complete;
  terminal.remark('A part that is left out matches nothing: the rules after it decide about its connections.');
  return convertExitCodes.leftOut;
}

function lossLine({ object, field, value, reason, leftOut }: ConversionLoss): string {
  const [cause, part] = [formatPath(field), formatPath(leftOut)];
  const whole = part === cause ? '' : part === '' ? '; all of the object is left out' : `; ${part} is left out`;
  return `left out: ${object} ${cause} (${quoted(value)}): ${reason}${whole}`;
}
