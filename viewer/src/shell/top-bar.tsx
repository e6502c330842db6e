import { entryAt } from '../numbers/at';
import { current } from '../state/recordings';
import { THEMES, theme, type Theme } from '../style/theme';
import { Chooser, CloseButton } from './chooser';
import { OpenButton } from './drop';
import { helpShown } from './keys';
import { SearchBox } from './search-box';

/** SVG paths of the theme icons: a sun, a moon, and a half-filled circle. */
const ICONS: Record<Theme, string> = {
  light: 'M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.4 1.4M11.6 11.6 13 13M3 13l1.4-1.4M11.6 4.4 13 3',
  dark: 'M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z',
  system: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 2v12M8 5.5h4.5M8 8h6M8 10.5h4.5',
};

function ThemeButton() {
  const next = entryAt<Theme>(THEMES, (THEMES.indexOf(theme.value) + 1) % THEMES.length);
  const label = `Theme: ${theme.value}. Change to ${next}`;
  return (
    <button type="button" class="button icon-button" aria-label={label} title={label} onClick={() => (theme.value = next)}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d={ICONS[theme.value]} />
      </svg>
    </button>
  );
}

export function TopBar() {
  return (
    <div class="top-bar">
      <h1 class="brand">vramscope</h1>
      <Chooser />
      <OpenButton />
      <CloseButton />
      {current.value ? <SearchBox /> : <span class="spring" />}
      <ThemeButton />
      <button
        type="button"
        class="button icon-button"
        aria-haspopup="dialog"
        aria-label="Keys"
        title="Keys (?)"
        onClick={() => (helpShown.value = true)}
      >
        ?
      </button>
    </div>
  );
}
