/* A PJRT plugin that does one thing wrong. FAULT says which; the numbers are spelled out in faults.rs. */

#include <stdlib.h>
#include <string.h>

#include "pjrt_c_api.h"

enum {
  NULL_TABLE = 1, TINY_TABLE, WRONG_MAJOR, OLD_MINOR, SHORT_TABLE, FAILING_INITIALIZE, NULL_CLIENT,
  GARBAGE_ERROR, ERROR_WITHOUT_FUNCTIONS, ERROR_ON_ERROR, NULL_DEVICE, NULL_STRINGS, TRACED_ERROR,
};

struct PJRT_Error { int code; const char* message; size_t size; };

static PJRT_Error* fail(int code, const char* message, size_t size) {
  PJRT_Error* error = malloc(sizeof *error);
  error->code = code;
  error->message = message;
  error->size = size;
  return error;
}

static void error_destroy(PJRT_Error_Destroy_Args* args) { free(args->error); }

static void error_message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message;
  args->message_size = args->error->size;
}

static PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  if (FAULT == ERROR_ON_ERROR) return fail(13, "no code", 7);
  args->code = args->error->code;
  return NULL;
}

static PJRT_Error* initialize(PJRT_Plugin_Initialize_Args* args) {
  (void)args;
  return FAULT == FAILING_INITIALIZE ? fail(14, "out of order", 12) : NULL;
}

static PJRT_Error* client_create(PJRT_Client_Create_Args* args) {
  static const char traced[] = "it broke\n*** Begin stack trace ***\n\txla::Frame()\n*** End stack trace ***";
  switch (FAULT) {
    case NULL_CLIENT: args->client = NULL; return NULL;
    case GARBAGE_ERROR: return fail(999, NULL, (size_t)-1);
    case ERROR_WITHOUT_FUNCTIONS: return fail(3, "unseen", 6);
    case ERROR_ON_ERROR: return fail(3, "caf\xe9", 4);
    case TRACED_ERROR: return fail(13, traced, sizeof traced - 1);
    default: args->client = (PJRT_Client*)malloc(1); return NULL;
  }
}

static PJRT_Error* client_destroy(PJRT_Client_Destroy_Args* args) { free(args->client); return NULL; }

static PJRT_Error* platform_name(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = FAULT == NULL_STRINGS ? NULL : "fake";
  args->platform_name_size = 4;
  return NULL;
}

static PJRT_Error* platform_version(PJRT_Client_PlatformVersion_Args* args) {
  args->platform_version = FAULT == NULL_STRINGS ? NULL : "0";
  args->platform_version_size = 1;
  return NULL;
}

static PJRT_Error* addressable_devices(PJRT_Client_AddressableDevices_Args* args) {
  static PJRT_Device* devices[2] = {NULL, NULL};
  args->addressable_devices = FAULT == NULL_DEVICE ? devices : NULL;
  args->num_addressable_devices = 2;
  return NULL;
}

const PJRT_Api* GetPjrtApi(void) {
  static PJRT_Api api;
  if (FAULT == NULL_TABLE) return NULL;
  api.struct_size = sizeof api;
  api.pjrt_api_version.major_version = FAULT == WRONG_MAJOR ? 1 : PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = FAULT == OLD_MINOR ? 40 : PJRT_API_MINOR;
  if (FAULT == TINY_TABLE) api.struct_size = 8;
  if (FAULT == SHORT_TABLE) api.struct_size = offsetof(PJRT_Api, PJRT_Client_Create);
  if (FAULT != ERROR_WITHOUT_FUNCTIONS) {
    api.PJRT_Error_Destroy = error_destroy;
    api.PJRT_Error_Message = error_message;
    api.PJRT_Error_GetCode = error_code;
  }
  api.PJRT_Plugin_Initialize = initialize;
  api.PJRT_Client_Create = client_create;
  api.PJRT_Client_Destroy = client_destroy;
  api.PJRT_Client_PlatformName = platform_name;
  api.PJRT_Client_PlatformVersion = platform_version;
  api.PJRT_Client_AddressableDevices = addressable_devices;
  return &api;
}
