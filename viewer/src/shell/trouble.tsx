import { trouble } from '../state/trouble';

/** A bar with the last error, until it is dismissed. */
export function Trouble() {
  return (
    <div class="trouble-place" role="alert">
      {trouble.value !== null && (
        <div class="trouble">
          <p>{trouble.value}</p>
          <button type="button" class="button" onClick={() => (trouble.value = null)}>
            Dismiss
          </button>
        </div>
      )}
    </div>
  );
}
