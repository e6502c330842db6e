import { view, VIEWS } from '../state';
import { VIEW_NAMES } from './names';

export function Tabs() {
  const keys = (e: KeyboardEvent) => {
    const at = VIEWS.indexOf(view.value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEWS.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    view.value = VIEWS[(to + VIEWS.length) % VIEWS.length];
    document.getElementById(`tab-${view.value}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" onKeyDown={keys}>
      {VIEWS.map((v, i) => (
        <button key={v} id={`tab-${v}`} type="button" role="tab" class="tab" title={`${VIEW_NAMES[v]} (${i + 1})`}
          aria-selected={v === view.value} aria-controls="panel" tabIndex={v === view.value ? 0 : -1}
          onClick={() => (view.value = v)}>
          {VIEW_NAMES[v]}
        </button>
      ))}
    </div>
  );
}
