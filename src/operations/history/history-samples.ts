import type { History } from './history.ts';
import { listSegments } from './segment-files.ts';

/** Value of a metric with its labels. */
type HistorySample = readonly [labels: Readonly<Record<string, string>>, value: number];

type HistoryMetric = 'history_recording' | 'history_records_total' | 'history_lost_total' | 'history_bytes' | 'history_oldest_seconds';

/** Streams of the history; the flow log has a folder of its own. */
const streams = ['events', 'inputs'] as const;

/** Returns the metrics of the history; of one that is off, and of files that cannot be read, no series. Never rejects. */
export async function historySamples(
  history: Pick<History, 'isEnabled' | 'failure' | 'written' | 'lostTotal' | 'folder'>,
): Promise<Readonly<Record<HistoryMetric, readonly HistorySample[]>>> {
  const { isEnabled, failure, written, lostTotal, folder } = history;
  if (!isEnabled)
    return { history_recording: [], history_records_total: [], history_lost_total: [], history_bytes: [], history_oldest_seconds: [] };
  const files = await Promise.all(
    streams.map(async (stream) => ({ stream, segments: await listSegments(folder, stream).catch(() => undefined) })),
  );
  return {
    history_recording: [[{}, failure === undefined ? 1 : 0]],
    history_records_total: streams.map((stream) => [{ stream }, written[stream]]),
    history_lost_total: [[{}, lostTotal]],
    history_bytes: files.flatMap(({ stream, segments }): HistorySample[] =>
      segments ? [[{ stream }, segments.reduce((sum, { bytes }) => sum + bytes, 0)]] : [],
    ),
    history_oldest_seconds: files.flatMap(({ stream, segments }): HistorySample[] => {
      const [oldest] = segments ?? [];
      return oldest ? [[{ stream }, oldest.startMs / 1_000]] : [];
    }),
  };
}
