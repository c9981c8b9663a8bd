import { yamlProblem } from './yaml-problem.ts';

interface EditorProps {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly rows: number;
  readonly onInput: (value: string) => void;
}

/** Text field for YAML, which names the line of an error. */
export function Editor({ id, label, value, rows, onInput }: EditorProps) {
  const problem = yamlProblem(value);
  return (
    <div class="field editor">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        value={value}
        spellcheck={false}
        autocomplete="off"
        aria-invalid={problem !== undefined}
        aria-describedby={`${id}-problem`}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <small id={`${id}-problem`} class="problem" role="status">
        {problem === undefined ? '' : `Not YAML: ${problem}`}
      </small>
    </div>
  );
}
