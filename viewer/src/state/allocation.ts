import { asked } from './asked';
import { device, file } from './place';
import { current, source } from './recordings';
import { selected } from './selection';

/** The details of the selected allocation; null without a selection, or until the answer arrives. */
export const selection = asked(() => {
  if (!current.value || selected.value === null) return null;
  return source.ask(file.value, device.value, { question: 'allocation', id: selected.value });
});
