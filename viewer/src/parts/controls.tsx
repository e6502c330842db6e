import type { ComponentChildren, TargetedMouseEvent } from 'preact';
import { useId } from 'preact/hooks';

export interface Choice<T extends string> {
  value: T;
  label: string;
}

export interface ChoiceProps<T extends string> {
  label: string;
  choices: readonly Choice<T>[];
  value: T;
  choose: (value: T) => void;
}

/** Radio buttons in a row. */
export function Segmented<T extends string>({ label, choices, value, choose }: ChoiceProps<T>) {
  const name = useId();
  return (
    <fieldset class="segmented">
      <legend>{label}</legend>
      {choices.map((c) => (
        <label key={c.value}>
          <input type="radio" name={name} value={c.value} checked={c.value === value} onChange={() => choose(c.value)} />
          <span>{c.label}</span>
        </label>
      ))}
    </fieldset>
  );
}

export function Check({ label, checked, set }: { label: string; checked: boolean; set: (checked: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(e) => set(e.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

export function Select<T extends string>({ label, choices, value, choose }: ChoiceProps<T>) {
  return (
    <label class="select">
      <span>{label}</span>
      <select value={value} onChange={(e) => choose(e.currentTarget.value as T)}>
        {choices.map((c) => (
          <option key={c.value} value={c.value}>
            {c.label}
          </option>
        ))}
      </select>
    </label>
  );
}

export interface ButtonProps {
  onClick: (e: TargetedMouseEvent<HTMLButtonElement>) => void;
  children: ComponentChildren;
  /** A longer name, if the text alone is not clear. */
  label?: string;
  disabled?: boolean;
}

export function Button({ onClick, children, label, disabled = false }: ButtonProps) {
  return (
    <button
      type="button"
      class="button"
      onClick={onClick}
      disabled={disabled}
      {...(label ? { 'aria-label': label, title: label } : {})}
    >
      {children}
    </button>
  );
}

/** The content of a panel that has nothing to show. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="panel-empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** The content of a panel while its answer is pending, or after a failed request. */
export function Waiting({ error, what }: { error: string | null; what: string }) {
  return error ? (
    <Empty title="This could not be read.">
      <p>{error}</p>
    </Empty>
  ) : (
    <p class="waiting" role="status">
      {what}
    </p>
  );
}
