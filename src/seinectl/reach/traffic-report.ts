import { SeineError } from '../../base/errors/seine-error.ts';
import { type CaseResult, CaseRunner } from '../../policy/reach/cases.ts';
import { documentsOf } from '../../policy/reach/manifest-documents.ts';
import type { ReachObjects } from '../../policy/reach/objects.ts';
import { Reach } from '../../policy/reach/reach.ts';
import { withTraffic } from '../../policy/reach/traffic.ts';
import { textOf } from './sources.ts';

/** Connection of a list of traffic, with its verdict. */
interface TrafficReport {
  readonly text: string;
  /** `some`: the pods of a workload differ. */
  readonly verdict: CaseResult['found'];
  readonly by: readonly string[];
  /** End that selects nothing. */
  readonly missing?: string;
  readonly disagreements: CaseResult['disagreements'];
}

/** Evaluates a list of traffic. @throws SeineError `INVALID_INPUT` that names the file, the entry and the field */
export function reportTraffic(path: string, objects: ReachObjects): readonly TrafficReport[] {
  const [document] = documentsOf(path, textOf(path));
  try {
    const scene = withTraffic(document?.object, objects);
    const runner = new CaseRunner(new Reach(scene.objects));
    return scene.cases.map(({ text, evaluated }) => {
      const { found, decidedBy, missing, disagreements } = runner.run(evaluated);
      return { text, verdict: found, by: decidedBy, disagreements, ...(missing === undefined ? {} : { missing }) };
    });
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${path}: ${SeineError.from(thrown, 'parse').rawMessage}`, { cause: thrown });
  }
}

export function trafficLine({ text, verdict, by, missing }: TrafficReport): string {
  return `${text}: ${missing ?? verdict}${by.length > 0 ? ` (${by.join(', ')})` : ''}`;
}
