import { entryAt } from '../numbers/at';
import { VIEWS, VIEW_NAMES, isOfJob, view } from '../state/place';
import { current } from '../state/recordings';

export function Tabs() {
  // While no rank is open, only the views of all ranks have content.
  const shown = VIEW_NAMES.filter((name) => current.value || isOfJob(name));
  const keys = (e: KeyboardEvent) => {
    const at = shown.indexOf(view.value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: shown.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    view.value = entryAt(shown, (to + shown.length) % shown.length);
    document.getElementById(`tab-${view.value}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" onKeyDown={keys}>
      {shown.map((v, i) => (
        <button
          key={v}
          id={`tab-${v}`}
          type="button"
          role="tab"
          class="tab"
          title={i < 9 ? `${VIEWS[v]} (${i + 1})` : VIEWS[v]}
          aria-selected={v === view.value}
          aria-controls="panel"
          tabIndex={v === view.value ? 0 : -1}
          onClick={() => (view.value = v)}
        >
          {VIEWS[v]}
        </button>
      ))}
    </div>
  );
}
