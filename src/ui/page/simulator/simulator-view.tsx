import { lessons } from '../../lessons/lessons.ts';
import { parameters, show } from '../location.ts';
import { Badge, Selection } from '../parts.tsx';
import { LessonCard } from './lesson-card.tsx';
import { LoadedSummary, OwnObjects } from './own-objects.tsx';
import { SimulatedMatrix, SimulatedTest, SimulatedTrace, SimulatedWhatIf } from './simulated-answers.tsx';

const questions = {
  trace: { title: 'Trace', View: SimulatedTrace },
  matrix: { title: 'Matrix', View: SimulatedMatrix },
  whatif: { title: 'What if', View: SimulatedWhatIf },
  test: { title: 'Test', View: SimulatedTest },
} as const;

/** A cluster that is computed from its objects, in this browser. */
export function SimulatorView() {
  const { lesson: id = '', do: asked = 'trace' } = parameters.value;
  const lesson = lessons.find((each) => each.id === id);
  const name = Object.hasOwn(questions, asked) ? (asked as keyof typeof questions) : 'trace';
  const { View } = questions[name];
  const sources = { '': 'Your own objects', ...Object.fromEntries(lessons.map((each, at) => [each.id, `Lesson ${at + 1}: ${each.title}`])) };
  return (
    <section aria-labelledby="simulator-title">
      <div class="title">
        <h1 id="simulator-title">
          Simulator
        </h1>
        <Badge tone="quiet">simulated</Badge>
      </div>
      <p>
        A cluster computed from its objects, with the compilers of Seine’s agents. Everything runs in this browser: no cluster is contacted, and
        nothing that you write here leaves it.
      </p>
      <div class="form">
        <Selection id="lesson" label="Objects" value={lesson?.id ?? ''} options={sources} onSelect={(value) => show({ view: 'simulator', lesson: value })} />
      </div>
      {lesson ? <LessonCard key={lesson.id} lesson={lesson} /> : <OwnObjects />}
      <LoadedSummary />
      <div class="tabs">
        <ul>
          {Object.entries(questions).map(([each, { title }]) => (
            <li key={each}>
              <button type="button" aria-pressed={each === name} onClick={() => show({ ...parameters.value, view: 'simulator', do: each })}>
                {title}
              </button>
            </li>
          ))}
        </ul>
      </div>
      <View />
    </section>
  );
}
