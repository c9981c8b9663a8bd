/** Values of `flowLog.closes`. */
export const closesChoices = ['auto', 'always', 'never'] as const;
type ClosesChoice = (typeof closesChoices)[number];

export interface ClosesSettings {
  readonly ovsDatapathType: 'system' | 'netdev';
  readonly flowLog: { readonly closes: ClosesChoice };
}

/** Reports whether ends of connections are recorded. Pure. */
export function recordsEnds({ ovsDatapathType, flowLog }: ClosesSettings): boolean {
  return flowLog.closes === 'always' || (flowLog.closes === 'auto' && ovsDatapathType === 'system');
}
