import { type MatrixSubject, type PolicyDirection, policyDirections, type SubjectClass } from '../matrix/matrix.ts';
import type { RowsByKey } from './flows-matrix.ts';
import type { DirectionTransition } from './transition.ts';

/** Returns local pods, some of them in copies of classes. */
export function withCopies(
  subjects: RowsByKey<MatrixSubject>,
  copies: Readonly<Record<PolicyDirection, DirectionTransition['copies'] | undefined>>,
): RowsByKey<MatrixSubject> {
  return {
    get: (pod) => {
      const subject = subjects.get(pod);
      return (
        subject && policyDirections.reduce((changed, direction) => withCopied(changed, direction, copies[direction]?.get(pod)), subject)
      );
    },
  };
}

function withCopied(
  subject: MatrixSubject,
  direction: PolicyDirection,
  copies: ReadonlyMap<SubjectClass, SubjectClass> | undefined,
): MatrixSubject {
  if (!copies) return subject;
  const { [direction]: own, cluster } = subject;
  const { [direction]: ofTiers } = cluster ?? {};
  const copied = Object.entries(ofTiers ?? {}).map(([tier, each]) => [tier, copies.get(each) ?? each]);
  return {
    ...subject,
    ...(own && { [direction]: copies.get(own) ?? own }),
    ...(ofTiers && { cluster: { ...cluster, [direction]: Object.fromEntries(copied) } }),
  };
}
