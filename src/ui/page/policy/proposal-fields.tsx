import type { Signal } from '@preact/signals';
import { Editor } from '../simulator/editor.tsx';
import { Field } from '../parts.tsx';

interface ProposalFieldsOptions {
  readonly text: Signal<string>;
  readonly removed: string;
  readonly onRemoved: (value: string) => void;
}

/** Fields of a proposal: objects that it changes, and objects that it deletes. */
export function ProposalFields({ text, removed, onRemoved }: ProposalFieldsOptions) {
  return (
    <>
      <Editor
        id="proposal"
        label="Changed or new objects: policies, labels of pods and namespaces, Services"
        rows={10}
        value={text.value}
        onInput={(value) => {
          text.value = value;
        }}
      />
      <Field
        id="removed"
        label="Objects to delete"
        value={removed}
        hint="KIND/NAMESPACE/NAME, for example networkpolicy/shop/db-clients"
        onInput={onRemoved}
      />
    </>
  );
}
