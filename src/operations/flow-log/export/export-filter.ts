import { SeineError } from '../../../base/errors/seine-error.ts';
import { flowFilter, flowFilterNames } from '../records/flow-filter.ts';
import type { FlowRecord } from '../records/flow-record.ts';

/**
 * Returns the condition of an export; undefined for `summary`. Pure.
 *
 * @throws SeineError `INVALID_INPUT` naming the filter and the value
 */
export function exportFilter(text: string): ((flow: FlowRecord) => boolean) | undefined {
  if (text === 'summary') return undefined;
  if (text === 'all') return () => true;
  const query = new URLSearchParams(text);
  for (const name of query.keys())
    if (!flowFilterNames.includes(name))
      throw new SeineError('INVALID_INPUT', `${JSON.stringify(name)} is not a filter: use summary, all, or ${flowFilterNames.join(', ')}`);
  return flowFilter(query);
}
