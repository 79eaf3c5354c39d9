import test from 'ava'
import { localeAccepted } from '../../../policy/accounts/locales.ts'
import type { MailLocale } from '../../../policy/mail/template.ts'

test('the language is the supported one that a browser prefers', t => {
  const cases: [string | undefined, MailLocale][] = [
    [undefined, 'en-US'],
    ['', 'en-US'],
    ['*', 'en-US'],
    ['pt-BR', 'pt-BR'],
    ['PT-br,en;q=0.5', 'pt-BR'],
    ['pt-PT,pt;q=0.9,en;q=0.8', 'pt-BR'],
    ['zh-TW', 'zh-CN'],
    ['nl,de;q=0.7,en;q=0.3', 'de-DE'],
    ['en;q=0.3, de;q=0.7', 'de-DE'],
    ['de;q=0, fr;q=0.1', 'fr-FR'],
    ['de;q=x', 'en-US'],
    ['nonsense;;;,,=', 'en-US'],
    [`${'x,'.repeat(100_000)}de`, 'en-US'],
  ]
  for (const [header, locale] of cases) t.is(localeAccepted(header), locale, header?.slice(0, 40))
})
