import type { Analytics } from '../../activities/analytics/port.ts'
import type { RememberedAnswers } from './remembered-answers.ts'

/** What answers questions about the requests of applications. */
export interface NetworkServices {
  analytics: Analytics
  networkAnswers: RememberedAnswers
}
