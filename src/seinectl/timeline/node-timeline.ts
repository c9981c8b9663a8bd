import { readTimeline } from '../../operations/history/read-timeline.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Terminal } from '../terminal.ts';
import { eventLine, parsedEvent } from './timeline-lines.ts';
import { type TimelineQuery, timelinePath } from './timeline-query.ts';

interface NodeTimelineOptions {
  readonly isJson: boolean;
  /** True to print a line after the last event: an answer without events is then not taken for a missing one. */
  readonly withEnd: boolean;
}

/**
 * Prints events of this node as they arrive.
 *
 * @param source the agent, or a folder of history
 * @throws SeineError like `AgentClient.lines`
 */
export async function nodeTimeline(
  source: AgentClient | string,
  query: TimelineQuery,
  { isJson, withEnd }: NodeTimelineOptions,
  terminal: Terminal,
): Promise<number> {
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort();
  process.once('SIGINT', interrupt);
  let printed = 0;
  try {
    for await (const line of linesOf(source, query, interrupted.signal)) {
      const event = parsedEvent(line, []);
      if (event === undefined) continue;
      printed++;
      const { nodes: _nodes, ...plain } = event;
      terminal.line(isJson ? safeLine(JSON.stringify(plain)) : eventLine(event, { ...query, withNodes: false }, terminal.room));
    }
  } catch (thrown) {
    if (!interrupted.signal.aborted) throw thrown;
  } finally {
    process.off('SIGINT', interrupt);
  }
  if (withEnd) terminal.line('{"end":true}');
  if (printed === 0 && !isJson) terminal.remark('seinectl: no events in this time');
  return exitCodes.ok;
}

async function* linesOf(source: AgentClient | string, query: TimelineQuery, signal: AbortSignal): AsyncGenerator<string> {
  if (typeof source !== 'string') {
    yield* source.lines(timelinePath(query), 'GET', signal);
    return;
  }
  const { subject, fromMs, untilMs = Number.MAX_SAFE_INTEGER } = query;
  const question = { fromMs, untilMs, node: '', ...(subject === undefined ? {} : { subject }) };
  for await (const event of readTimeline(source, question)) yield JSON.stringify(event);
}
