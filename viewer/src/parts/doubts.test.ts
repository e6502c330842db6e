import { expect, test } from 'vitest';
import { doubtText } from './doubts';

test('doubts are sentences, with their numbers', () => {
  expect(doubtText('preexisting_blocks:1')).toMatch(/^1 block was live/);
  expect(doubtText('lost_events:2000')).toBe('2,000 events were lost: an address was used again or freed twice.');
  expect(doubtText('skipped_actions:segment_map')).toMatch(/^Events of the kind segment_map were not recorded/);
  expect(doubtText('something_new:3')).toBe('something new:3');
});
