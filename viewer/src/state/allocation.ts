import { asked } from './asked';
import { device, file } from './place';
import { current, source } from './recordings';
import { selected } from './selection';

/** Everything about the selected allocation; null: none is selected, or its answer is not there yet. */
export const selection = asked(() => {
  if (!current.value || selected.value === null) return null;
  return source.allocation(file.value, device.value, selected.value);
});
