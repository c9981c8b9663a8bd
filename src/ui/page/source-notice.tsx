import { useEffect } from 'preact/hooks';
import type { ShownSource } from '../answers/shown-source.ts';
import { useAnswer } from './questions.ts';
import { shownSource } from './source.ts';

/** Names the support bundles that the page shows in place of a cluster. */
export function SourceNotice() {
  const { answer } = useAnswer<ShownSource>('source');
  useEffect(() => {
    shownSource.value = answer;
  }, [answer]);
  if (answer?.kind !== 'bundles') return null;
  return (
    <aside class="notice source" aria-label="Source">
      <p>
        <strong>From support bundles.</strong> No cluster is contacted; all times are those of the bundles.
      </p>
      <ul>
        {answer.bundles.map(({ file, node, seine, collected, flows }) => (
          <li key={file}>
            {node}: {file}, collected {collected.replace('T', ' ').slice(0, 19)} UTC by Seine {seine}; {flows}.
          </li>
        ))}
        {answer.lacks.map((lack) => (
          <li key={lack}>! {lack}.</li>
        ))}
      </ul>
    </aside>
  );
}
