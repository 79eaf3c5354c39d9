import { localeAccepted } from '../../policy/accounts/locales.ts'
import { shareText } from '../../policy/pages/share.ts'
import type { Exchange } from '../http/call.ts'
import { escaped, page } from '../http/pages/pages.ts'
import type { Reply } from '../http/respond.ts'

/** Asks for the password of a share, in the visitor's language. Says nothing of the file, and nothing more once a password was wrong. */
export function sharePage({ request }: Exchange, isWrong: boolean): Reply {
  const language = localeAccepted(request.headers['accept-language'])
  const { title, intro, password, open, wrong } = shareText[language]
  return page({
    status: isWrong ? 403 : 200,
    language,
    title,
    text: [intro],
    form: `<form method="post"><label>${escaped(password)}<input type="password" name="password" autocomplete="off" required autofocus></label>
<button>${escaped(open)}</button></form>${isWrong ? `<p role="alert">${escaped(wrong)}</p>` : ''}`,
    posts: true,
    headers: { Vary: 'Accept-Language' },
  })
}
