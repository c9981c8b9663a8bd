import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { LessonResult, SimulatorFile } from '../../answers/simulator.ts';
import type { Lesson } from '../../lessons/lesson.ts';
import { Badge, Sentence, ViewLink } from '../parts.tsx';
import { Editor } from './editor.tsx';
import { loadedObjects, loadObjects } from './loaded-objects.ts';
import { simulatorWorker } from './simulator-worker.ts';

/** Answers by lesson: kept while another view is open. */
const answers = signal<Readonly<Record<string, string>>>({});

type Checked = { readonly answer: LessonResult } | { readonly failure: string };

/** A lesson: what it is about, the task, the learner's answer, and its check. */
export function LessonCard({ lesson }: { readonly lesson: Lesson }) {
  const text = answers.value[lesson.id] ?? lesson.start;
  const setText = (value: string): void => {
    answers.value = { ...answers.value, [lesson.id]: value };
  };
  const [checked, setChecked] = useState<Checked>();
  const files: readonly SimulatorFile[] = [
    { name: 'objects', content: lesson.objects },
    { name: 'your answer', content: text },
  ];
  useEffect(() => {
    void loadObjects(files);
    // With the answer of that time; the check loads later ones.
  }, [lesson.id]);
  const check = async (): Promise<void> => {
    const loaded = await loadObjects(files);
    if (loaded?.failure !== undefined) setChecked({ failure: loaded.failure });
    else setChecked(loaded && (await simulatorWorker.ask('check', { checks: lesson.checks })));
  };
  return (
    <div class="card lesson">
      {lesson.text.map((paragraph) => (
        <p key={paragraph}>
          <Sentence text={paragraph} />
        </p>
      ))}
      <details>
        <summary>Objects of this cluster</summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: an area that scrolls has to be reachable with the keyboard (WCAG 2.1.1) */}
        <pre class="scroll" tabindex={0} role="region" aria-label="Objects of this cluster">
          {lesson.objects}
        </pre>
      </details>
      <p>
        <strong>Task:</strong> <Sentence text={lesson.task} />
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void check();
        }}
      >
        <Editor id="answer" label="Your answer" rows={12} value={text} onInput={setText} />
        <div class="actions">
          <button type="submit" class="primary" disabled={loadedObjects.value?.state === 'loading'}>
            Check
          </button>
          <button type="button" onClick={() => setText(lesson.start)}>
            Start again
          </button>
        </div>
      </form>
      {checked ? <CheckResult lesson={lesson} checked={checked} /> : null}
      <details>
        <summary>An answer that passes</summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: an area that scrolls has to be reachable with the keyboard (WCAG 2.1.1) */}
        <pre class="scroll" tabindex={0} role="region" aria-label="An answer that passes">
          {lesson.solution}
        </pre>
      </details>
    </div>
  );
}

function CheckResult({ lesson, checked }: { readonly lesson: Lesson; readonly checked: Checked }) {
  if ('failure' in checked)
    return (
      <div class="notice warn" role="alert">
        <h2>The answer cannot be checked</h2>
        <p>{checked.failure}</p>
      </div>
    );
  const { passed, checks } = checked.answer;
  return (
    <div class="checks" aria-live="polite">
      <p class="verdict">{passed ? <Badge tone="good">solved</Badge> : <Badge tone="bad">not yet</Badge>}</p>
      <ul>
        {checks.map((each) => (
          <li key={each.text}>
            <Badge tone={each.passed ? 'good' : 'bad'}>{each.passed ? 'as required' : 'not as required'}</Badge>{' '}
            <span>
              {each.text}: {each.found}.{' '}
              <ViewLink to={{ view: 'simulator', lesson: lesson.id, do: 'trace', ...each.question }}>Trace this packet</ViewLink>
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
