import type { Logger } from 'pino'
import { openLanguageModel, openTokenizer } from '../../activities/language-model/select.ts'
import { ChatCalls } from '../../api/v2/ai/chat-calls.ts'
import type { Db } from '../../db/database.ts'
import type { Config } from '../../policy/config.ts'

/** The calls of this process at the models of the settings. */
export function openChatCalls({ ai, apiProcesses: processes }: Config, db: Db, log: Logger): ChatCalls {
  const { upstreams, searchUrl, dailyTokens } = ai
  return new ChatCalls({
    db,
    log,
    model: upstreams.length > 0 ? openLanguageModel(ai, { processes, log }) : null,
    countTokens: openTokenizer(ai),
    searches: searchUrl !== null,
    dailyTokens,
  })
}
