import { entryAt } from '../numbers/at';
import { VIEWS, VIEW_NAMES, view } from '../state/place';

export function Tabs() {
  const keys = (e: KeyboardEvent) => {
    const at = VIEW_NAMES.indexOf(view.value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEW_NAMES.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    view.value = entryAt(VIEW_NAMES, (to + VIEW_NAMES.length) % VIEW_NAMES.length);
    document.getElementById(`tab-${view.value}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" onKeyDown={keys}>
      {VIEW_NAMES.map((v, i) => (
        <button
          key={v}
          id={`tab-${v}`}
          type="button"
          role="tab"
          class="tab"
          title={`${VIEWS[v]} (${i + 1})`}
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
