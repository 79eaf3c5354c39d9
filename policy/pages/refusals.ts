import type { PageText } from './page-text.ts'

type Texts = Record<'away' | 'calm' | 'captcha' | 'captchaAway' | 'unknown', string>

/** Texts of any page that cannot continue. `unknown`: a requested change may have been made. */
export const refusalText: PageText<Texts> = {
  'pt-BR': {
    away: 'A plataforma não responde. Tente de novo em instantes.',
    calm: 'Tentativas demais. Espere alguns minutos.',
    captcha: 'Resolva o captcha primeiro. Se não vê nenhum, recarregue a página.',
    captchaAway: 'O captcha não pôde ser verificado. Tente de novo mais tarde.',
    unknown: 'Não se sabe se isto foi feito. Verifique antes de tentar de novo.',
  },
  'en-US': {
    away: 'The platform does not respond. Try again in a moment.',
    calm: 'Too many attempts. Wait a few minutes.',
    captcha: 'Solve the captcha first. If you do not see one, reload this page.',
    captchaAway: 'The captcha could not be checked. Try again later.',
    unknown: 'It is not known whether this was done. Check before you try again.',
  },
  'es-ES': {
    away: 'La plataforma no responde. Inténtalo de nuevo en un momento.',
    calm: 'Demasiados intentos. Espera unos minutos.',
    captcha: 'Resuelve primero el captcha. Si no ves ninguno, recarga la página.',
    captchaAway: 'No se ha podido comprobar el captcha. Inténtalo más tarde.',
    unknown: 'No se sabe si esto se ha hecho. Compruébalo antes de volver a intentarlo.',
  },
  'zh-CN': {
    away: '平台没有响应，请稍后再试。',
    calm: '尝试次数过多，请等待几分钟。',
    captcha: '请先完成人机验证。如果没有看到，请重新加载此页面。',
    captchaAway: '无法核实人机验证，请稍后再试。',
    unknown: '无法确定此操作是否已完成。请先查看，再决定是否重试。',
  },
  'ja-JP': {
    away: 'プラットフォームが応答しません。しばらくしてからもう一度お試しください。',
    calm: '試行回数が多すぎます。数分お待ちください。',
    captcha: '先に CAPTCHA を解いてください。表示されない場合は、ページを再読み込みしてください。',
    captchaAway: 'CAPTCHA を確認できませんでした。後でもう一度お試しください。',
    unknown: 'この操作が完了したかどうかは不明です。もう一度試す前に確認してください。',
  },
  'fr-FR': {
    away: 'La plateforme ne répond pas. Réessayez dans un instant.',
    calm: "Trop d'essais. Attendez quelques minutes.",
    captcha: "Résolvez d'abord le captcha. Si vous n'en voyez pas, rechargez la page.",
    captchaAway: "Le captcha n'a pas pu être vérifié. Réessayez plus tard.",
    unknown: 'On ne sait pas si cela a été fait. Vérifiez avant de réessayer.',
  },
  'de-DE': {
    away: 'Die Plattform antwortet nicht. Versuchen Sie es gleich noch einmal.',
    calm: 'Zu viele Versuche. Warten Sie einige Minuten.',
    captcha: 'Lösen Sie zuerst das Captcha. Wenn Sie keines sehen, laden Sie die Seite neu.',
    captchaAway: 'Das Captcha konnte nicht geprüft werden. Versuchen Sie es später noch einmal.',
    unknown: 'Es ist nicht bekannt, ob dies geschehen ist. Sehen Sie nach, bevor Sie es noch einmal versuchen.',
  },
  'it-IT': {
    away: 'La piattaforma non risponde. Riprova tra un momento.',
    calm: 'Troppi tentativi. Aspetta qualche minuto.',
    captcha: 'Risolvi prima il captcha. Se non ne vedi nessuno, ricarica la pagina.',
    captchaAway: 'Il captcha non può essere verificato. Riprova più tardi.',
    unknown: "Non si sa se l'operazione è stata eseguita. Controlla prima di riprovare.",
  },
}
